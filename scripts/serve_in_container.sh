#!/bin/sh
# What the container runs: the gateway, for other machines, with the options that are given.
# The token is in CNP_ROUTER_TOKEN, or in the file that CNP_ROUTER_TOKEN_FILE names, as secrets of
# Docker and Kubernetes are. Without one, --clients FILE has to say who may ask.
set -eu
if [ -n "${CNP_ROUTER_TOKEN_FILE:-}" ]; then
  CNP_ROUTER_TOKEN=$(cat "$CNP_ROUTER_TOKEN_FILE")
  export CNP_ROUTER_TOKEN
fi
if [ -n "${CNP_ROUTER_TOKEN:-}" ]; then
  set -- --token-env CNP_ROUTER_TOKEN "$@"
fi
exec cnp-router serve --http --host 0.0.0.0 "$@"
