package android.content.res;

public class Resources {
    public native Configuration getConfiguration();

    public native android.util.DisplayMetrics getDisplayMetrics();
}
