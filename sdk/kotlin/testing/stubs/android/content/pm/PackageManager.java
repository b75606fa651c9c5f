package android.content.pm;

public abstract class PackageManager {
    public abstract PackageInfo getPackageInfo(String name, int flags);
}
