-- Headers, the program's and jobq's own, as a JSON object of texts; and how the payload is encoded.
ALTER TABLE jobs ADD COLUMN headers TEXT;
ALTER TABLE jobs ADD COLUMN content_encoding TEXT;
ALTER TABLE failed ADD COLUMN headers TEXT;
ALTER TABLE failed ADD COLUMN content_encoding TEXT;
ALTER TABLE events ADD COLUMN headers TEXT;
ALTER TABLE events ADD COLUMN content_encoding TEXT;
