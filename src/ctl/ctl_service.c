#include "ctl/ctl_service.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_paths.h"
#include "ctl/ctl_proc.h"

#define STOP_WAIT_MS "30000"
#define SVSCAN_START_MS 5000

const char *const ctl_services[] = { "db", "engine", "executor", "api", "nginx", NULL };

bool ctl_service_systemd(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

static char *scan_dir(const struct config *c)
{
	return ctl_path(c, "/run/paddock%I/service");
}

bool ctl_service_supervised(const struct config *c)
{
	cleanup_free char *dir = scan_dir(c);
	cleanup_buf struct buf out = BUF_INIT(1024);
	const char *argv[] = { "s6-svscanctl", "-a", dir, NULL };

	return ctl_service_systemd() || (dir && ctl_proc_run(argv, &out, NULL) == 0);
}

static int state_systemd(const struct config *c, const char *name, struct ctl_service_state *ret, err_t **err)
{
	char unit[64];
	cleanup_buf struct buf out = BUF_INIT(4096);
	const char *argv[] = { "systemctl", "show", "-p", "ActiveState,MainPID", unit, NULL };
	const char *pid;

	if (str_fmt(unit, sizeof unit, "paddock-%s%s.service", name, ctl_suffix(c)) < 0 || ctl_proc_run(argv, &out, err) < 0)
		return -1;
	ret->up = strstr(buf_str(&out), "ActiveState=active") != NULL;
	pid = strstr(buf_str(&out), "MainPID=");
	ret->pid = pid ? strtoll(pid + strlen("MainPID="), NULL, 10) : 0;
	ret->seconds = -1;
	return 0;
}

static int state_s6(const struct config *c, const char *name, struct ctl_service_state *ret, err_t **err)
{
	cleanup_free char *scan = scan_dir(c), *dir = scan ? str_dupf("%s/%s", scan, name) : NULL;
	cleanup_buf struct buf out = BUF_INIT(4096);
	const char *argv[] = { "s6-svstat", "-o", "up,pid,updownfor", dir, NULL };
	char up[16];
	long long pid, seconds;

	if (!dir)
		return err_set(err, ERR_NO_MEMORY, NULL, "path");
	if (ctl_proc_run(argv, &out, err) < 0)
		return -1;
	/* our own tool's line of three words: "true 123 45" */
	if (sscanf(buf_str(&out), "%15s %lld %lld", up, &pid, &seconds) != 3)
		return 0;
	ret->up = str_eq(up, "true");
	ret->pid = ret->up ? pid : 0;
	ret->seconds = seconds;
	return 0;
}

int ctl_service_state(const struct config *c, const char *name, struct ctl_service_state *ret, err_t **err)
{
	*ret = (struct ctl_service_state){ .seconds = -1 };
	return ctl_service_systemd() ? state_systemd(c, name, ret, err) : state_s6(c, name, ret, err);
}

/* The process that will be the root of the supervision tree: own session, no terminal, its words in a file. */
static void become_svscan(const char *dir, const char *log)
{
	const char *argv[] = { "s6-svscan", "-t", "5000", dir, NULL };
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

	if (setsid() < 0 || chdir("/") < 0 || in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	if (clearenv() != 0 || setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1) < 0)
		_exit(126);
	ctl_proc_exec(argv, NULL);
	_exit(127);
}

static int start_svscan(const struct config *c, err_t **err)
{
	cleanup_free char *dir = scan_dir(c), *log = ctl_path(c, "/var/log/paddock%I/svscan.log");
	int64_t end = clock_boot_ms() + SVSCAN_START_MS;
	pid_t pid;

	if (!dir || !log)
		return err_set(err, ERR_NO_MEMORY, NULL, "path");
	pid = fork();
	if (pid < 0)
		return err_sys(err, errno, "fork");
	if (pid == 0)
		become_svscan(dir, log);
	while (!ctl_service_supervised(c)) {
		if (clock_boot_ms() > end)
			return err_set(err, ERR_TIMEOUT, NULL, "s6-svscan did not start; see %s", log);
		usleep(100000);
	}
	return 0;
}

static int s6_control(const struct config *c, const char *name, const char *const *options, err_t **err)
{
	cleanup_free char *scan = scan_dir(c), *dir = scan ? str_dupf("%s/%s", scan, name) : NULL;
	const char *argv[8] = { "s6-svc" };
	size_t n = 1;
	int rc;

	while (*options && n < 6)
		argv[n++] = *options++;
	argv[n] = dir;
	rc = dir ? ctl_proc_run(argv, NULL, err) : err_set(err, ERR_NO_MEMORY, NULL, "path");
	return rc <= 0 ? rc : err_set(err, ERR_TIMEOUT, NULL, "%s: s6-svc ended with %d", name, rc);
}

static int start_s6(const struct config *c, err_t **err)
{
	static const char *const up[] = { "-u", NULL };

	if (!ctl_service_supervised(c))
		return start_svscan(c, err);
	for (const char *const *s = ctl_services; *s; s++) {
		if (s6_control(c, *s, up, err) < 0)
			return -1;
	}
	return 0;
}

static int stop_s6(const struct config *c, err_t **err)
{
	static const char *const down[] = { "-wD", "-T", STOP_WAIT_MS, "-d", NULL };
	cleanup_free char *dir = scan_dir(c);
	const char *argv[] = { "s6-svscanctl", "-t", dir, NULL };
	size_t n = 0;

	if (!ctl_service_supervised(c))
		return 0;
	while (ctl_services[n])
		n++;
	while (n-- > 0) {
		if (s6_control(c, ctl_services[n], down, err) < 0)
			return -1;
	}
	return dir && ctl_proc_run(argv, NULL, err) == 0 ? 0 : err_set(err, ERR_INTERNAL, NULL, "s6-svscan could not be told to end");
}

static int systemd_do(const struct config *c, const char *verb, err_t **err)
{
	char target[64], units[6][64];
	const char *argv[10] = { "systemctl", verb };
	size_t n = 2;
	int rc;

	if (str_fmt(target, sizeof target, "paddock%s.target", ctl_suffix(c)) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "name too long");
	argv[n++] = target;
	for (size_t i = 0; ctl_services[i]; i++) {
		if (str_fmt(units[i], sizeof units[i], "paddock-%s%s.service", ctl_services[i], ctl_suffix(c)) == 0)
			argv[n++] = units[i];
	}
	rc = ctl_proc_run(argv, NULL, err);
	return rc <= 0 ? rc : err_set(err, ERR_INTERNAL, NULL, "systemctl ended with %d", rc);
}

/* What root does at each start: directories in /run, cgroups, kernel settings. systemd has a unit for it. */
static int prepare(const struct config *c, err_t **err)
{
	cleanup_free char *program = ctl_path(c, "/opt/paddock%I/libexec/paddock/paddock-prepare");
	const char *argv[] = { program, NULL };
	int rc = program ? ctl_proc_run(argv, NULL, err) : err_set(err, ERR_NO_MEMORY, NULL, "path");

	return rc <= 0 ? rc : err_set(err, ERR_INTERNAL, NULL, "%s ended with %d", program, rc);
}

static int finish(const char *word, int rc, const err_t *err)
{
	if (rc < 0)
		fprintf(stderr, "paddockctl: %s: %s\n", word, err_message(err));
	return rc < 0;
}

static bool need_root(const char *word)
{
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "paddockctl: %s: run this as root\n", word);
	return false;
}

int ctl_start(const struct config *c, int argc, char **argv)
{
	cleanup_err err_t *err = NULL;
	int rc;

	(void)argc;
	if (!need_root(argv[0]))
		return 1;
	rc = ctl_service_systemd() ? systemd_do(c, "start", &err) : prepare(c, &err);
	if (rc == 0 && !ctl_service_systemd())
		rc = start_s6(c, &err);
	return finish(argv[0], rc, err);
}

int ctl_stop(const struct config *c, int argc, char **argv)
{
	cleanup_err err_t *err = NULL;
	int rc;

	(void)argc;
	if (!need_root(argv[0]))
		return 1;
	rc = ctl_service_systemd() ? systemd_do(c, "stop", &err) : stop_s6(c, &err);
	return finish(argv[0], rc, err);
}
