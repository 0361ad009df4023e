# contrib: set-up, checks and what they install. Nothing here is compiled.
EXTRA_DIST += contrib/up contrib/down contrib/check contrib/image contrib/lib contrib/lint contrib/s6 contrib/systemd contrib/templates
EXTRA_DIST += tests/integration/test_setup_parts.py tests/integration/test_man_links.py
