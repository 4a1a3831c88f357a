#!/usr/bin/env bash
# Makes a small Debian system with another version of RabbitMQ than this machine's, for
# private brokers that run in it (chroot), unless it is there already.
#
#   tests/brokers.sh VERSION FOLDER
#
# Ends with 3, and the reason on standard output, where this machine cannot have it.
set -euo pipefail
version=$1 system=$2

cannot() {
  echo "$*"
  exit 3
}
say() { echo "tests/brokers.sh: $*" >&2; }
packages() { apt-get "$@" >/dev/null; }

case $version in
4.0) suite=trixie ;;
4.3) suite=forky ;;
*) cannot "it is run only where it is the distribution's own RabbitMQ" ;;
esac
[ "$(id -u)" -eq 0 ] || cannot "it is run in another system's files, which takes root: run the tests as root"
unshare --mount true 2>/dev/null || cannot "this machine does not let root mount (a container without privileges?)"
[ ! -d "$system" ] || exit 0
command -v apt-get >/dev/null || cannot "it is built from Debian's packages, and this machine has no apt-get"

mkdir -p "$(dirname "$system")"
partial=$system.partial
# One at a time, whatever its version: they install packages.
exec 9>"$(dirname "$system")/lock"
flock --nonblock 9 || { say "waiting for another build of RabbitMQ" && flock 9; }
[ ! -d "$system" ] || exit 0

# The mirror that this machine's apt uses for Debian itself.
apt_mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Origin: Debian" "Label: Debian" |
    grep -E '^(https?|file):' | sed -n 1p
}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=${JOBQ_BROKER_MIRROR:-$(apt_mirror || true)}
if [ -z "$mirror" ] || [ ! -e "$keys" ] || ! command -v debootstrap >/dev/null; then
  say "installing debootstrap and Debian's keys"
  packages update -qq
  DEBIAN_FRONTEND=noninteractive packages install -y -qq --no-install-recommends \
    debootstrap debian-archive-keyring
  mirror=${mirror:-$(apt_mirror || true)}
fi
[ -n "$mirror" ] || cannot "this machine's apt knows no mirror of Debian; give its URL in JOBQ_BROKER_MIRROR"

say "building RabbitMQ $version from Debian $suite: 30 to 60 seconds, once, and about 300 MB in $system"
trap 'rm -rf --one-file-system "$partial"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf --one-file-system "$partial"
# debootstrap does not ask apt for its proxy.
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
export http_proxy
# What it mounts is gone with its name space, however it ends. It may be older than the
# suite, so it is told which script to use: sid's is that of them all.
if ! unshare --mount debootstrap --variant=minbase --include=rabbitmq-server,adduser,procps \
  --keyring="$keys" "$suite" "$partial" "$mirror" /usr/share/debootstrap/scripts/sid >"$system.log" 2>&1; then
  say "debootstrap failed; the tail of $system.log:"
  tail -n 20 "$system.log" >&2
  exit 1
fi
if ! compgen -G "$partial/usr/lib/rabbitmq/lib/rabbitmq_server-$version.*" >/dev/null; then
  say "Debian $suite has another RabbitMQ by now: $(ls "$partial/usr/lib/rabbitmq/lib")"
  exit 1
fi
# Without it 4.3 waits for ever, and says nothing.
grep -qsw localhost "$partial/etc/hosts" || echo "127.0.0.1 localhost" >>"$partial/etc/hosts"
rm -f "$partial"/var/cache/apt/archives/*.deb
mv "$partial" "$system"
