-- One audit for each closed hour of the installation: the API process with the lease does it, all of them show the
-- result.
CREATE TABLE hourly_audits (
  -- Its beginning, epoch ms.
  hour bigint PRIMARY KEY,
  -- Who audits it, and until when no other process does.
  owner text NOT NULL,
  claimed_until timestamptz NOT NULL,
  -- Null until it is done.
  figures jsonb
);
