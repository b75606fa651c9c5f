package android.content.res;

public final class Configuration {
    public native android.os.LocaleList getLocales();
}
