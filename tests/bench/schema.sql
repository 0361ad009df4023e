CREATE TABLE run (id text PRIMARY KEY, owner text NOT NULL, status text NOT NULL, attempt integer NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO run SELECT 'run_' || lpad(i::text, 6, '0'), 'user' || i % 1000, 'running', 1 FROM generate_series(0, 99999) i;
CREATE TABLE command (id bigserial PRIMARY KEY, run_id text NOT NULL REFERENCES run, argv jsonb NOT NULL, status text NOT NULL, exit_code integer,
	created_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz);
CREATE INDEX ON command (run_id, created_at);
VACUUM ANALYZE;
