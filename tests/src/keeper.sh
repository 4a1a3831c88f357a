# shellcheck shell=sh
# Keeps one private broker and ends it when the test process ends, however that ends:
# then standard input, the read end of a pipe that only the test process can write to,
# is at its end. Reads commands, one a line, and answers each with one line.
#
# $1 is the folder with the broker's data; the environment is the broker's. Where
# JOBQ_TEST_BROKER_ROOT is set, the broker runs in that other system. Where
# JOBQ_TEST_EPMD is not "own", the epmd of its port is another keeper's.

dir=$1
pid=
inside() {
    if [ -n "$JOBQ_TEST_BROKER_ROOT" ]; then
        exec chroot "$JOBQ_TEST_BROKER_ROOT" "$@"
    fi
    exec "$@"
}
# epmd would be started by the broker as a daemon that outlives it; a child does not.
epmd=
if [ "$JOBQ_TEST_EPMD" = own ]; then
    (inside epmd -address "$ERL_EPMD_ADDRESS" -port "$ERL_EPMD_PORT" \
        </dev/null >>"$dir/epmd.log" 2>&1) &
    epmd=$!
fi

end() { # a signal
    if [ -n "$pid" ]; then
        kill "-$1" "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        pid=
    fi
}

while read -r command; do
    case $command in
    start)
        (inside /usr/lib/rabbitmq/bin/rabbitmq-server -noinput \
            </dev/null >>"$dir/broker.log" 2>&1) &
        pid=$!
        echo "$pid"
        ;;
    kill) end KILL && echo dead ;;
    stop) end TERM && echo dead ;;
    esac
done
end KILL
[ -z "$epmd" ] || kill -KILL "$epmd" 2>/dev/null
rm -rf "$dir"
