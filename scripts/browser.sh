#!/bin/sh
# Installs the browser for the tests of the page: Chromium without windows from Debian's packages. Does nothing where a Chromium is installed.
set -eu
for program in chromium-headless-shell chromium chromium-browser google-chrome; do
	if command -v "$program" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "The tests of the page need Chromium. On Debian: apt-get install -y chromium-headless-shell" >&2
	exit 1
fi
echo "installing chromium-headless-shell" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -yqq --no-install-recommends chromium-headless-shell >/dev/null
