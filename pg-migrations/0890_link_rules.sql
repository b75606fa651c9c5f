-- Where some visitors of a link are led instead, in order (common/links/link-rule.ts).
ALTER TABLE links ADD COLUMN rules jsonb;
