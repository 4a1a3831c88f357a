#!/usr/bin/env bash
# RabbitMQ 3.10 refuses all messages of a channel to a quorum queue for as long as a dead node is down, although the queue
# has a new leader and accepts the messages of other channels.
#
# Seen with RabbitMQ 3.10.8 (Debian 12) and pika 1.4.4, three nodes, 240 quorum queues that one node leads. That node is
# killed, and at once a client of another node publishes its first message to each queue, each on a channel of its
# own. Some answers are basic.nack, which one expects during an election. But these channels get nothing but basic.nack
# afterwards. 20 seconds later, the queues have new leaders, and new channels to the same queues get basic.ack. A
# channel asks the member that was the leader when it first published, and remembers no other one until that member
# answers. Where the node never returns, because it is replaced, only a new channel helps. RabbitMQ does the same
# when it dead-letters at least once: what a queue dead-letters to such a queue stays, until the node of its own
# leader restarts. RabbitMQ 4.3.6 refuses none in the same situation, and keeps the messages for the new leader.
#
# Output seen; how many channels are refused depends on the machine:
#
#   3.10.8
#   some channels were refused at once
#   20 s later: all of these are refused still, and none of the new channels to the same queues
#
# It needs Debian 12 with apt-get and dpkg-deb, the Erlang on which rabbitmq-server depends, Python 3, and the network.
set -euo pipefail

folder=$(mktemp -d /tmp/finding-XXXXXX)
epmd=''
trap 'kill -9 $epmd $(awk 1 "$folder"/*/pid) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq rabbitmq-server=3.10.8-1.1+deb12u1 2>/dev/null
dpkg-deb -x rabbitmq-server_*.deb root
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check pika==1.4.4
sbin=$folder/root/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
export ERL_EPMD_PORT ERL_EPMD_ADDRESS=127.0.0.1 HOME=$folder RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ALLOW_INPUT=1
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
ERL_EPMD_PORT=$(free_port)
echo FINDING >.erlang.cookie
chmod 400 .erlang.cookie
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
epmd=$!

# Runs a command of node $1, whose port for clients is in ports[$1].
ports=()
of_node() {
  local node=$1
  shift
  local -x RABBITMQ_NODENAME=finding$node@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=${ports[$node]}
  local -x RABBITMQ_DIST_PORT=${dist[$node]} RABBITMQ_MNESIA_BASE=$folder/$node/data RABBITMQ_LOG_BASE=$folder/$node/log
  local -x RABBITMQ_CONFIG_FILE=$folder/$node/rabbitmq.conf RABBITMQ_ENABLED_PLUGINS_FILE=$folder/$node/plugins
  local -x RABBITMQ_PID_FILE=$folder/$node/pid RABBITMQ_ADVANCED_CONFIG_FILE=$folder/$node/advanced.config
  "$@"
}
dist=()
for node in 0 1 2; do
  ports+=("$(free_port)") dist+=("$(free_port)")
  mkdir "$node"
  echo '[].' | tee "$node/plugins" >"$node/advanced.config"
  echo 'disk_free_limit.absolute = 50MB' >"$node/rabbitmq.conf"
  [ "$node" = 0 ] || printf '%s\n' 'cluster_formation.peer_discovery_backend = classic_config' \
    'cluster_formation.classic_config.nodes.1 = finding0@localhost' >>"$node/rabbitmq.conf"
  of_node "$node" "$sbin/rabbitmq-server" -noinput </dev/null >"$node/output" 2>&1 &
  of_node "$node" "$sbin/rabbitmqctl" -q -n "finding$node@localhost" wait --timeout 120 "$folder/$node/pid" >/dev/null
done

cat >publish.py <<'PYTHON'
import os, signal, sys, time
import pika

leading, other, victim = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
QUEUES = [f"q{number}" for number in range(240)]

def connect(port):
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))

def accepts(channel, queue):
    try:
        channel.basic_publish("", queue, b"x")
        return True
    except pika.exceptions.NackError:
        return False

def confirming(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    return channel

declaring = connect(leading).channel()
for queue in QUEUES:
    declaring.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
connection = connect(other)
channels = {queue: confirming(connection) for queue in QUEUES}
time.sleep(5)
os.kill(victim, signal.SIGKILL)
refused = [queue for queue in QUEUES if not accepts(channels[queue], queue)]
print("some channels were refused at once" if refused else "no channel was refused")
time.sleep(20)
still = [queue for queue in refused if not accepts(channels[queue], queue)]
fresh = [queue for queue in refused if not accepts(confirming(connection), queue)]
print(f"{len(refused)} refused, {len(still)} of them still, {len(fresh)} of the new channels", file=sys.stderr)
if refused and still == refused and not fresh:
    print("20 s later: all of these are refused still, and none of the new channels to the same queues")
PYTHON

victim=$(cat 1/pid)
report() {
  of_node 0 "$sbin/rabbitmqctl" -q -n finding0@localhost version
  python/bin/python publish.py "${ports[1]}" "${ports[0]}" "$victim"
}
report | tee seen
expected='3.10.8
some channels were refused at once
20 s later: all of these are refused still, and none of the new channels to the same queues'
[ "$(cat seen)" = "$expected" ] || { echo "this has changed" >&2; exit 1; }
