#!/bin/sh
# Unpack Debian packages, and what they depend on and is not installed, into a folder without
# installing anything: usage, sh scripts/unpack_debian.sh FOLDER PROGRAM PACKAGE..., where PROGRAM is
# what must be there in the end, such as usr/bin/redis-server. Quiet; takes some minutes at most.
set -eu
folder=$1 program=$2
shift 2
[ -x "$folder/$program" ] && exit 0
command -v apt-get > /dev/null && command -v dpkg > /dev/null || exit 1

missing() {
  timeout 60 apt-get install --simulate --no-install-recommends "$@" | awk '$1 == "Inst" { print $2 }'
}

download() {
  packages=$(missing "$@") && [ -n "$packages" ] && timeout 120 apt-get download $packages
}

mkdir -p "$folder"
cd "$folder"
{
  # Without lists of packages, they are fetched, which only root may.
  download "$@" || {
    timeout 60 apt-get update
    download "$@"
  }
} > /dev/null 2>&1 || exit 1
for package in *.deb; do
  dpkg -x "$package" .
done
rm -f ./*.deb
[ -x "$program" ]
