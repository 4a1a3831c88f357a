-- The time of day at `last`. After a reboot the clock goes on by as much as the time of day has.
ALTER TABLE clock ADD COLUMN time_of_day INTEGER;
