#!/usr/bin/env bash
# In MariaDB, a DELETE by a list of primary keys waits for a row that is not in the list.
#
# Seen with MariaDB 10.11.19 (Debian 12), InnoDB. A relay takes the committed rows of a small table, skips those
# that others hold (SKIP LOCKED), and deletes by primary key what it took: DELETE .. WHERE seq IN (..), under READ
# COMMITTED. Meanwhile another transaction has inserted a row with a lower key and not committed. One
# expects the DELETE to look up its keys and to pass: READ COMMITTED locks no gaps, and the list does
# not name that row. It waits for the other transaction until innodb_lock_wait_timeout (50 s by default) ends
# it with error 1205. The optimizer finds a scan of the small table cheaper than lookups, and a scan waits for
# each row that it meets, before it sees that the list does not have it. FORCE INDEX (PRIMARY), in the form of DELETE that
# takes it, changes nothing: the scan is one of that index. In the same transaction, a DELETE for each key passes.
#
# Output seen:
#
#   10.11.19
#   taken: 2,3,4,5,6,7,8,9,10
#   one key at a time: deleted
#   by list: ERROR 1205 (HY000) at line 5: Lock wait timeout exceeded; try restarting transaction
#   by list, FORCE INDEX: ERROR 1205 (HY000) at line 5: Lock wait timeout exceeded; try restarting transaction
#
# It needs Debian 12 with apt-get and dpkg-deb, and the libraries on which mariadb-server-core depends.
set -euo pipefail

folder=$(mktemp -d /tmp/finding-XXXXXX)
server='' holder=''
trap 'kill $holder $server 2>/dev/null; wait; rm -rf "$folder"' EXIT
chmod 777 "$folder"
cd "$folder"
version=1:10.11.19-0+deb12u1
apt-get download -qq mariadb-{server,client}-core="$version" mariadb-common="$version" libmariadb3="$version" 2>/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
user=()
[ "$(id -u)" -ne 0 ] || user=(setpriv --reuid nobody --regid nogroup --clear-groups)
"${user[@]}" root/usr/bin/mariadb-install-db --no-defaults --basedir="$folder/root/usr" --datadir="$folder/data" \
  --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1
"${user[@]}" root/usr/sbin/mariadbd --no-defaults --basedir="$folder/root/usr" --datadir="$folder/data" \
  --socket="$folder/socket" --pid-file="$folder/pid" --skip-networking --innodb-lock-wait-timeout=2 2>/dev/null &
server=$!
client=(root/usr/bin/mariadb --no-defaults --socket="$folder/socket" --user=root --skip-column-names)
until "${client[@]}" -e 'SELECT 1' >/dev/null 2>&1; do sleep 0.1; done

# A table with an uncommitted row 1, in a transaction that stays open, and nine others.
"${client[@]}" -e 'CREATE DATABASE shop; CREATE TABLE shop.rows_to_send (
  seq bigint AUTO_INCREMENT PRIMARY KEY, payload text) ENGINE = InnoDB'
mkfifo statements
"${client[@]}" shop <statements &
holder=$!
exec 3>statements
echo "BEGIN; INSERT INTO rows_to_send (payload) VALUES ('early');" >&3
begun='SELECT count(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 0'
until [ "$("${client[@]}" -e "$begun")" = 1 ]; do sleep 0.1; done
"${client[@]}" shop -e "INSERT INTO rows_to_send (payload)
  VALUES ('a'), ('b'), ('c'), ('d'), ('e'), ('f'), ('g'), ('h'), ('i')"

# Takes the rows, and deletes them by these statements. It is rolled back.
take() {
  "${client[@]}" shop 2>&1 <<SQL | tail -n 1
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
BEGIN;
SELECT group_concat(seq) FROM (
  SELECT seq FROM rows_to_send ORDER BY seq LIMIT 500 FOR UPDATE SKIP LOCKED) AS taken;
$1
ROLLBACK;
SQL
}

report() {
  "${client[@]}" -e "SELECT substring_index(version(), '-', 1)"
  echo "taken: $(take '')"
  echo "one key at a time: $(take "$(printf 'DELETE FROM rows_to_send WHERE seq = %s; ' {2..10}) SELECT 'deleted';")"
  local list='(2, 3, 4, 5, 6, 7, 8, 9, 10)'
  echo "by list: $(take "DELETE FROM rows_to_send WHERE seq IN $list; SELECT 'deleted';")"
  echo "by list, FORCE INDEX: $(take "DELETE rows_to_send FROM rows_to_send FORCE INDEX (PRIMARY)
WHERE seq IN $list; SELECT 'deleted';")"
}

report | tee seen
expected='10.11.19
taken: 2,3,4,5,6,7,8,9,10
one key at a time: deleted
by list: ERROR 1205 (HY000) at line 5: Lock wait timeout exceeded; try restarting transaction
by list, FORCE INDEX: ERROR 1205 (HY000) at line 5: Lock wait timeout exceeded; try restarting transaction'
[ "$(cat seen)" = "$expected" ] || { echo "this has changed" >&2; exit 1; }
