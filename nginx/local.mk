# nginx
