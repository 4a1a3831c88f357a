#!/usr/bin/env bash
# A user who may only read a SQLite database in WAL mode locks out the user who may write it.
#
# Seen with SQLite 3.54.1 (apsw 3.54.1.0) and 3.40.1 on Linux. The database is closed and belongs to one
# user, with the mode 644, in a directory that a group may write. A member of the group reads it once and
# closes it. SQLite makes the write-ahead log (-wal) and its index (-shm) for that, which belong to the
# reader and have the mode of the database. The reader cannot remove them at the end, as the last connection
# usually does, since it may not write the database. From then on the owner of the database cannot write
# it: "attempt to write a readonly database", until the two files are removed. The page of SQLite on its
# write-ahead log says that a reader may make the files (section "Read-Only Databases"), not what that does to the
# writer.
#
# Output seen:
#
#   owner 1000 of jobs.db made the database
#   reader 2000 read 0 rows
#   jobs.db-shm belongs to 2000
#   jobs.db-wal belongs to 2000
#   owner 1000 writes: attempt to write a readonly database
#
# It needs root (to act as two users), setpriv of util-linux, and python3 with venv and pip.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
# One that other users may run: that of root's home is hidden from them.
python=
for candidate in /usr/bin/python3 /usr/local/bin/python3 "$(command -v python3)"; do
  if setpriv --reuid=2000 --regid=3000 --clear-groups "$candidate" -c 'import venv' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "no python3 with venv that other users may run"; exit 2; }
"$python" -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check apsw==3.54.1.0
packages=$("$folder/python/bin/python" -c 'import apsw, os; print(os.path.dirname(os.path.dirname(apsw.__file__)))')

mkdir "$folder/shared"
chown 1000:3000 "$folder/shared"
chmod 2775 "$folder/shared"
database=$folder/shared/jobs.db

# Runs Python as a user of the group, with the database open as `db`.
as_user() {
  setpriv --reuid="$1" --regid=3000 --clear-groups env PYTHONPATH="$packages" DATABASE="$database" \
    "$python" -c "
import apsw, os
db = apsw.Connection(os.environ['DATABASE'])
$2
db.close()"
}

as_user 1000 "
db.execute('PRAGMA journal_mode = wal')
db.execute('CREATE TABLE jobs (name TEXT)')"
chmod 644 "$database"
echo "owner 1000 of jobs.db made the database"
as_user 2000 "print('reader 2000 read', db.execute('SELECT count(*) FROM jobs').fetchone()[0], 'rows')"
for file in jobs.db-shm jobs.db-wal; do
  owner=$(stat -c %u "$folder/shared/$file" 2>/dev/null || echo nobody)
  echo "$file belongs to $owner"
  [ "$owner" = 2000 ] || { echo "CHANGED: the reader leaves no $file"; exit 1; }
done
as_user 1000 "
try:
    db.execute(\"INSERT INTO jobs VALUES ('mail')\")
    print('owner 1000 writes: done')
except apsw.ReadOnlyError as error:
    print('owner 1000 writes:', str(error))" | tee "$folder/end"
grep -q 'attempt to write a readonly database' "$folder/end" || { echo "CHANGED: the owner can write"; exit 1; }
