# contrib: set-up, checks and what they install. Nothing here is compiled.
EXTRA_DIST += contrib/up contrib/down contrib/check contrib/image contrib/lib contrib/lint contrib/s6 contrib/systemd contrib/templates
