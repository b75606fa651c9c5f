package com.android.installreferrer.api;

public class ReferrerDetails {
    public native String getInstallReferrer();
}
