#!/bin/sh
# Unpack programs from Debian's packages into a folder, with the libraries that these packages name,
# without installing anything: usage, sh scripts/unpack_debian.sh FOLDER PROGRAM PACKAGE...
# PROGRAM is the file in FOLDER that there must be in the end, such as usr/bin/redis-server.
# Quiet; takes at most about two minutes.
set -eu
folder=$1 program=$2
shift 2
[ -x "$folder/$program" ] && exit 0
command -v apt-get > /dev/null && command -v dpkg > /dev/null || exit 1

packages() {
  # Not libc, which is there, and not what a browser would load (libjs-*).
  apt-cache depends "$@" |
    awk '$1 ~ /Depends:/ && $2 ~ /^lib/ && $2 !~ /^lib(c[0-9]|js-)/ { print $2 }' | sort -u
  printf '%s\n' "$@"
}

mkdir -p "$folder"
cd "$folder"
{
  # Without lists of packages, they are fetched, which only root may.
  timeout 60 apt-get download $(packages "$@") || {
    timeout 60 apt-get update
    timeout 60 apt-get download $(packages "$@")
  }
} > /dev/null 2>&1 || exit 1
for package in *.deb; do
  dpkg -x "$package" .
done
rm -f ./*.deb
[ -x "$program" ]
