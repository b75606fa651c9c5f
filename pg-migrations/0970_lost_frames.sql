-- Frames that a journal has lost, for example because its disk was damaged: the marks are past them, and no store has
-- them. Written in the transaction that moves the mark, so that each is counted once. Never deleted.
CREATE TABLE ingest.lost_frames (
  partition integer NOT NULL,
  kind text NOT NULL,
  producer_id text NOT NULL,
  frame_from bigint NOT NULL,
  frame_to bigint NOT NULL,
  -- At least: the frames themselves are gone, and each had one or more.
  records bigint NOT NULL,
  noted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (partition, kind, producer_id, frame_from)
);
CREATE INDEX lost_frames_noted_at ON ingest.lost_frames (noted_at);
