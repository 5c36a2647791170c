#!/bin/sh
# Makes an OCI image from the Debian packages: a minimal Debian with `bellwether`, all store modules, and a user without rights.
#     image.sh PACKAGES DIRECTORY
# PACKAGES is the output of deb.sh. Writes an image layout into DIRECTORY; `skopeo copy oci:DIRECTORY:VERSION docker://…` pushes
# it, and `podman load` or `docker load` read DIRECTORY.tar. Two builds from the same packages on the same Debian are identical.
set -eu
packages=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
set -- "$packages"/bellwether_*.deb
[ -e "$1" ] || {
    echo "cannot make an image: no packages in $packages; make deb builds them" >&2
    exit 64
}
version=${1##*/bellwether_}
version=${version%%-*}
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

mkdir "$work/repository"
cp "$packages"/*.deb "$work/repository"
rm -f "$work"/repository/*-dbgsym_*
(cd "$work/repository" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
modules=$(cd "$work/repository" && ls bellwether-store-*.deb | sed 's/_.*//' | paste -sd, -)

sources=$(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || true)
. /etc/os-release
# shellcheck disable=SC2016,SC2086 # $1 is for the hook; the sources are several words
mmdebstrap --quiet --variant=essential --include="bellwether,$modules,ca-certificates" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --aptopt='APT::Install-Recommends "false"' \
    --customize-hook='echo "bellwether:x:10001:10001::/var/lib/bellwether:/usr/sbin/nologin" >>"$1/etc/passwd"' \
    --customize-hook='echo "bellwether:x:10001:" >>"$1/etc/group"' \
    --customize-hook='install -d -o 10001 -g 10001 -m 700 "$1/var/lib/bellwether"' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/* "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/etc/apt/sources.list*' \
    "$VERSION_CODENAME" "$work/root.tar" $sources "deb [trusted=yes] copy:$work/repository ./" >"$work/log" 2>&1 || {
    tail -20 "$work/log" >&2
    echo "cannot make the file system of the image" >&2
    exit 1
}

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
rm -rf "$out/blobs" "$out/index.json" "$out/manifest.json" "$out/oci-layout"
rmdir "$out" # anything else in there is not ours
umoci init --layout "$out"
umoci new --image "$out:$version"
umoci raw add-layer --image "$out:$version" --history.created "$created" --history.created_by "packaging/image.sh" "$work/root.tar"
umoci config --image "$out:$version" --created "$created" --config.user 10001:10001 --config.workingdir /var/lib/bellwether \
    --config.volume /var/lib/bellwether --config.entrypoint /usr/bin/bellwether --config.cmd --help \
    --config.label org.opencontainers.image.title=bellwether --config.label "org.opencontainers.image.version=$version" \
    --history.created "$created" --history.created_by "packaging/image.sh"
umoci gc --layout "$out"
# The archive has two descriptions of the same image: annotations for podman and containerd, manifest.json for `docker load`.
python3 - "$out" "bellwether:$version" <<'END'
import json, os, sys
layout, name = sys.argv[1:]
def read(path):
    with open(os.path.join(layout, path), encoding="utf-8") as file:
        return json.load(file)
def write(path, content):
    with open(os.path.join(layout, path), "w", encoding="utf-8") as file:
        json.dump(content, file)
def blob(entry):
    return "blobs/" + entry["digest"].replace(":", "/")
index = read("index.json")
entry = index["manifests"][0]
entry["annotations"]["io.containerd.image.name"] = "docker.io/library/" + name
write("index.json", index)
manifest = read(blob(entry))
write("manifest.json", [{"Config": blob(manifest["config"]), "RepoTags": [name], "Layers": [blob(layer) for layer in manifest["layers"]]}])
END
chmod 644 "$out/index.json" "$out/manifest.json"
tar -C "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$out.tar" .
echo "$out:$version"
