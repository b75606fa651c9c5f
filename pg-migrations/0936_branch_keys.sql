-- The key with which an import reads links from Branch, encrypted with SECRET_KEY. It is gone when the dry run has ended.
ALTER TABLE imports ADD COLUMN branch_key_ciphertext text
  CHECK (branch_key_ciphertext IS NULL OR state IN ('uploading', 'checking'));
