# shellcheck shell=bash
# man.sh - where man(1) looks, the normal instance has links to its pages. What is not such a link of ours is neither replaced nor removed.

man_is_ours() { [ -L "$1" ] && [[ $(readlink "$1") == "$prefix"/share/man/* ]]; }

man_link() {
	local page at
	for page in "$prefix"/share/man/man[58]/*; do
		[ -f "$page" ] || continue
		at=$man${page#"$prefix/share/man"}
		if man_is_ours "$at" || { [ ! -e "$at" ] && [ ! -L "$at" ]; }; then
			mkdir -p "${at%/*}"
			ln -sfn "$page" "$at"
		else
			warn "$at is not ours and stays; the page is $page"
		fi
	done
}

man_unlink() {
	local at
	for at in "$man"/man[58]/*; do
		! man_is_ours "$at" || rm -f "$at"
	done
	rmdir --ignore-fail-on-non-empty "$man"/man[58] 2>/dev/null || true
}
