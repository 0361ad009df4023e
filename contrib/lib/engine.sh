# shellcheck shell=bash
# engine.sh - the sandbox image in the account's own container storage.

engine_cli() { # podman as the account, with the installation's own files
	(cd / && env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME="$lib/engine/home" XDG_RUNTIME_DIR="$run/xdg" \
		CONTAINERS_CONF="$etc/containers.conf" CONTAINERS_STORAGE_CONF="$etc/storage.conf" TMPDIR="$lib/engine" \
		setpriv --reuid="$acct" --regid="$acct" --init-groups podman "$@")
}

image_name=localhost/paddock-sandbox:latest

# The archive is kept in /var/cache/paddock by the digest of its recipe, so that a second installation need not make it again.
image_archive() { # image_archive DIGEST: makes $archive
	exec 8>/run/paddock-image.lock
	flock 8
	archive=/var/cache/paddock/image-$1.tar
	[ ! -f "$archive" ] || return 0
	local new=/var/cache/paddock/new-$$.tar   # the format goes by the ending
	mkdir -p /var/cache/paddock
	step "sandbox image from Debian packages (once, a minute or two)"
	quietly "$lib/build/image.log" "$here/image/build" "$new"
	rm -rf /var/cache/paddock/image-*.tar
	mv "$new" "$archive"
}

image_digest() {
	{ cat "$here/image/build"; printf '%s\n' "${PADDOCK_IMAGE_SUITE:-} ${PADDOCK_IMAGE_MIRROR:-} ${PADDOCK_IMAGE_EXTRA:-}"; } | sha256sum | cut -c1-16
}

engine_image() {
	local digest stamp=$lib/build/image.recipe
	! is_host || return 0   # it has the host's programs
	digest=$(image_digest)
	if [ "$(cat "$stamp" 2>/dev/null)" = "$digest" ] && engine_cli image exists "$image_name"; then
		return 0
	fi
	image_archive "$digest"
	step "importing the image, first container"
	engine_cli import -q -c 'ENTRYPOINT []' - "$image_name" <"$archive" >"$lib/build/import.log" 2>&1 ||
		{ cat "$lib/build/import.log" >&2; die "the image could not be imported"; }
	# The first container with keep-id re-owns the layers, which takes seconds: not the first user's seconds.
	quietly "$lib/build/warm.log" engine_cli run --rm --network none --userns keep-id:uid=1000,gid=1000 --user 0:0 "$image_name" true
	engine_cli image prune -f >/dev/null 2>&1 || true
	printf '%s\n' "$digest" >"$stamp"
}
