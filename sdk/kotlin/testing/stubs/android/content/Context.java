package android.content;

public abstract class Context {
    public native Context getApplicationContext();

    public native java.io.File getNoBackupFilesDir();

    public native String getPackageName();

    public native android.content.pm.PackageManager getPackageManager();

    public native android.content.res.Resources getResources();
}
