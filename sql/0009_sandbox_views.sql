-- What is shown of a user's sandbox with each look at it: how long it runs at this moment, and whether something of an earlier one is stuck.
CREATE INDEX sb_usage_log_running ON sb_usage_log (user_id) WHERE ended_at IS NULL;
CREATE INDEX instances_quarantined ON instances (user_id) WHERE quarantined_at IS NOT NULL;
