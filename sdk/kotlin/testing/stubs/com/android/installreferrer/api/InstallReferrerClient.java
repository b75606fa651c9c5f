package com.android.installreferrer.api;

public abstract class InstallReferrerClient {
    public @interface InstallReferrerResponse {
        int OK = 0;
    }

    public static native Builder newBuilder(android.content.Context context);

    public static final class Builder {
        public native InstallReferrerClient build();
    }

    public abstract void startConnection(InstallReferrerStateListener listener);

    public abstract void endConnection();

    public abstract ReferrerDetails getInstallReferrer() throws Exception;
}
