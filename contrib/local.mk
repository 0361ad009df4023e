# contrib: set-up, checks and what they install. Nothing here is compiled.
EXTRA_DIST += contrib/up contrib/image contrib/lib contrib/s6 contrib/templates
