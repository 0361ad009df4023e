# shellcheck shell=bash
# build.sh - builds out of the tree and installs to $prefix. The source tree is only read; nothing is done when neither it nor the flags changed.

build_files() { # every file that belongs to the source, as ./path, NUL-terminated; what builds leave in a tree is not among them
	(cd "$src" && find . \( -name .git -o -name autom4te.cache -o -name build-aux -o -name .deps -o -name __pycache__ -o -name .pytest_cache \
		-o -name node_modules \) -prune -o -type f ! -name '*.o' ! -name '*.a' ! -path ./configure ! -path ./Makefile ! -path ./Makefile.in ! -path ./aclocal.m4 \
		! -path './config.*' ! -path ./stamp-h1 -print0 -o -path ./configure.ac -print0 | LC_ALL=C sort -z -u)
}

build_digest() {
	{
		printf '%s\n' "$prefix ${PADDOCK_CONFIGURE_FLAGS:-} ${CC:-}"
		(cd "$src" && build_files | grep -zE '^\./((src|fcgi|sql|nginx|docs/man)/|.*local\.mk$|configure\.ac|Makefile\.am|bootstrap)' | xargs -0 sha256sum)
	} | sha256sum | cut -d' ' -f1
}

# Copies what differs (with a new time stamp, so that make sees it whatever the clone's own times are) and drops what is gone.
build_sync() {
	local f
	mkdir -p "$1"
	build_files >"$1.list"
	while IFS= read -r -d '' f; do
		cmp -s "$src/$f" "$1/$f" || install -D -m "$(stat -c %a "$src/$f")" "$src/$f" "$1/$f"
	done <"$1.list"
	if [ -f "$1.list.old" ]; then
		LC_ALL=C comm -z -13 "$1.list" "$1.list.old" | (cd "$1" && xargs -0 -r rm -f)
	fi
	mv -f "$1.list" "$1.list.old"
}

build_configure() {
	local flags
	read -r -a flags <<<"${PADDOCK_CONFIGURE_FLAGS:-}"
	(cd "$1/obj" && ../src/configure --prefix="$prefix" --sysconfdir="$etc" --localstatedir=/var "${flags[@]}")
}

build_install() {
	local b=$lib/build digest
	digest=$(build_digest)
	if [ -f "$prefix/.digest" ] && [ "$(cat "$prefix/.digest")" = "$digest" ]; then
		return 0
	fi
	step "building and installing to $prefix"
	build_sync "$b/src"
	[ -x "$b/src/configure" ] || quietly "$b/bootstrap.log" "$b/src/bootstrap"
	if [ "$(cat "$b/flags" 2>/dev/null)" != "${PADDOCK_CONFIGURE_FLAGS:-} ${CC:-}" ] || [ ! -f "$b/obj/Makefile" ]; then
		rm -rf "$b/obj"
		mkdir "$b/obj"
		quietly "$b/configure.log" build_configure "$b"
		printf '%s\n' "${PADDOCK_CONFIGURE_FLAGS:-} ${CC:-}" >"$b/flags"
	fi
	quietly "$b/make.log" make -C "$b/obj" -j"$(nproc)"
	quietly "$b/install.log" make -C "$b/obj" install
	printf '%s\n' "$digest" >"$prefix/.digest"
}
