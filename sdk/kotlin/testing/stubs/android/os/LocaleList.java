package android.os;

public final class LocaleList {
    public native int size();

    public native java.util.Locale get(int index);
}
