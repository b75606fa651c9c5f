-- One audit for each closed hour of the installation: the API process that has the lease does it, all of them show what it found.
CREATE TABLE hourly_audits (
  -- Its beginning, epoch ms.
  hour bigint PRIMARY KEY,
  -- Who audits it, and until when nobody else does.
  owner text NOT NULL,
  claimed_until timestamptz NOT NULL,
  -- Null until it is done.
  figures jsonb
);
