#!/bin/sh
# Make the secrets of compose.yaml, once: what is there stays.
set -eu
folder=$(dirname "$0")/secrets
(umask 077; mkdir -p "$folder")

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

if ! test -s "$folder/database-url"; then
  password=$(random)
  printf '%s' "$password" > "$folder/database-password"
  printf 'postgresql://perfmodel:%s@postgres/perfmodel' "$password" > "$folder/database-url"
fi
test -s "$folder/grafana-password" || random > "$folder/grafana-password"
# The folder is closed to others; within containers each file is read by a user of its own.
chmod 0444 "$folder"/*
echo "Secrets are in $folder."
