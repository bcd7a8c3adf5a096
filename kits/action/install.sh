#!/usr/bin/env bash
# Unpacks the bundle in RUNNER_TEMP, and puts its program on the PATH of later steps. BUNDLE is a path or an address;
# without it, REPOSITORY's release of this version has it, with its SHA-256 sum.
set -euo pipefail

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$(dirname "$0")/../../emulator/mocketmq/__init__.py")
kind=tar.xz
case "$(uname -s)" in
    Linux) system=linux ;;
    Darwin) system=macos ;;
    *) system=windows kind=zip ;;
esac
name=mocketmq-$version-$system-$(uname -m).$kind
archive=${BUNDLE:-https://github.com/$REPOSITORY/releases/download/v$version/$name}
case "$archive" in
    http://* | https://*)
        address=$archive archive=$RUNNER_TEMP/${archive##*/}
        curl --fail --silent --show-error --location --retry 3 --output "$archive" "$address"
        if [ -z "${BUNDLE:-}" ]; then
            curl --fail --silent --show-error --location --retry 3 --output "$archive.sha256" "$address.sha256"
            (cd "$RUNNER_TEMP" && shasum --algorithm 256 --check "$archive.sha256")
        fi
        ;;
esac
folder=$RUNNER_TEMP/mocketmq
case "$archive" in
    *.zip) # has one folder, too
        unzip -q "$archive" -d "$RUNNER_TEMP/unpacked"
        mv "$RUNNER_TEMP/unpacked"/mocketmq-* "$folder"
        ;;
    *)
        mkdir -p "$folder"
        tar -xf "$archive" -C "$folder" --strip-components 1
        ;;
esac
echo "$folder" >>"$GITHUB_PATH"
