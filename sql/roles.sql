-- Run once as a superuser of the cluster, before the first migration. Running it again changes nothing.
--   paddock_owner  owns the database and everything in it; runs the migrations
--   paddock_api    the workers and the janitor: no more than they need
--   paddock_read   reads, for `paddockctl sql`; sees no secret's hash
DO $$
DECLARE
	v_role text;
BEGIN
	FOREACH v_role IN ARRAY ARRAY['paddock_owner', 'paddock_api', 'paddock_read'] LOOP
		IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = v_role) THEN
			EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', v_role);
		END IF;
	END LOOP;
END
$$;
ALTER ROLE paddock_read SET default_transaction_read_only = on;
ALTER ROLE paddock_read SET statement_timeout = '60s';
ALTER ROLE paddock_api SET idle_in_transaction_session_timeout = '30s';
