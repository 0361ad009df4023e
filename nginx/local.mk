# nginx: the template of the front's configuration; contrib/up fills it in
EXTRA_DIST += nginx/nginx.conf.in
