-- A look at a user's sandbox reads each table once: what of the user's Runs needs something, and the user's instances.
CREATE INDEX runs_busy ON runs (user_id) WHERE status IN ('running', 'cancel_requested') OR cleanup_pending;
CREATE INDEX instances_of_user ON instances (user_id) WHERE run_id IS NULL;
DROP INDEX sb_usage_log_running, instances_quarantined;
