-- Seats: what the holder for a queue keeps for the next one. `owner` holds it, as long as it is among
-- the owners; `number` tells its holders apart.
CREATE TABLE seats (
    queue INTEGER PRIMARY KEY,
    owner INTEGER,
    number INTEGER NOT NULL DEFAULT 0,
    list BLOB NOT NULL DEFAULT x'',
    position BLOB NOT NULL DEFAULT x''
) STRICT;

-- Changes of the list that are no part of it yet, in their order.
CREATE TABLE seat_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    change BLOB NOT NULL
) STRICT;

CREATE INDEX seat_changes_of ON seat_changes (queue);
