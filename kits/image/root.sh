#!/bin/sh
# Completes the root file system of the emulator's image, whose bundle is in ROOT/opt/mocketmq already: adds the
# system's libraries that the bundle does not bring (of glibc, and zlib), certificates, the user, and /tmp.
#   kits/image/root.sh ROOT
set -eu
root=$1
bundle=$root/opt/mocketmq

find "$bundle" -type f \( -name mocketmq -o -name '*.so*' \) -exec ldd {} + 2>/dev/null |
    sed -n 's/^\t\(.* => \)\{0,1\}\(\/[^ ]*\) (0x.*/\2/p' | sort -u |
    while read -r library; do
        # The name by which it is loaded, and one place for all, whether /lib is a link or not.
        name=${library##*/}
        # The program itself is loaded before it can say where the bundle's libraries are.
        ldd "$bundle/mocketmq" | grep -qF "$library " || test -z "$(find "$bundle" -name "$name" | head -n 1)" || continue
        case $name in ld-*) folder=${library%/*} ;; *) folder=/lib/$(uname -m)-linux-gnu ;; esac
        mkdir -p "$root$folder"
        cp -L "$library" "$root$folder/$name"
    done

mkdir -p "$root/etc/ssl/certs" "$root/tmp"
chmod 1777 "$root/tmp"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'mocketmq:x:10001:10001::/data:/sbin/nologin' >"$root/etc/passwd"
echo 'mocketmq:x:10001:' >"$root/etc/group"
