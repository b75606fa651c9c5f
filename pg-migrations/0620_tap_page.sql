-- Whether a link shows the tap page; null uses the app's settings.tap_page.
ALTER TABLE links ADD COLUMN tap_page text CHECK (tap_page IN ('off', 'ios', 'mobile'));
