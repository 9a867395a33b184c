#!/bin/sh
# Unpack a Redis server and its libraries from Debian's packages into a folder, without installing
# anything: usage, sh scripts/unpack_redis.sh FOLDER. Quiet; takes at most about two minutes.
set -eu
[ -x "$1/usr/bin/redis-server" ] && exit 0
command -v apt-get > /dev/null && command -v dpkg > /dev/null || exit 1

packages() {
  apt-cache depends redis-tools | awk '$1 ~ /Depends:/ && $2 ~ /^lib/ && $2 !~ /^libc[0-9]/ { print $2 }'
  echo redis-tools redis-server
}

mkdir -p "$1"
cd "$1"
{
  # Without lists of packages, they are fetched, which only root may.
  timeout 60 apt-get download $(packages) || {
    timeout 60 apt-get update
    timeout 60 apt-get download $(packages)
  }
} > /dev/null 2>&1 || exit 1
for package in *.deb; do
  dpkg -x "$package" .
done
rm -f ./*.deb
[ -x usr/bin/redis-server ]
