/* confine_calls.c - system calls that a worker never makes (declared in confine.h). */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fcgi/confine.h"

/* Other programs and processes, other processes' memory, namespaces and mounts, the kernel's rarely used and often broken doors, the machine. */
static const int forbidden[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork),
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise), SCMP_SYS(kcmp), SCMP_SYS(pidfd_getfd),
	SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(chroot), SCMP_SYS(pivot_root), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(move_mount),
	SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr),
	SCMP_SYS(open_by_handle_at), SCMP_SYS(mknod), SCMP_SYS(mknodat),
	SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
	SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(personality),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(reboot),
	SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(syslog), SCMP_SYS(sethostname), SCMP_SYS(setdomainname),
	SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(clock_adjtime),
	SCMP_SYS(bind), SCMP_SYS(listen),
};

static int add_forbidden(scmp_filter_ctx f)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof forbidden / sizeof *forbidden; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), forbidden[i], 0);
	return rc;
}

/* On the first argument. */
static struct scmp_arg_cmp first(enum scmp_compare op, uint64_t a, uint64_t b)
{
	return (struct scmp_arg_cmp){ .arg = 0, .op = op, .datum_a = a, .datum_b = b };
}

/* Threads may be made, processes not. clone3 hides its flags; without it the C library takes clone. */
static int add_clone(scmp_filter_ctx f)
{
	int rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

	return rc ? rc : seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, first(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

static bool is_useful(int family)
{
	return family == AF_UNIX || family == AF_INET || family == AF_INET6;
}

/* The database and the executor, by socket; a database elsewhere. */
static int add_sockets(scmp_filter_ctx f)
{
	int rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, first(SCMP_CMP_GT, AF_INET6, 0));

	for (int family = 0; rc == 0 && family < AF_INET6; family++)
		if (!is_useful(family))
			rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, first(SCMP_CMP_EQ, (uint64_t)family, 0));
	return rc;
}

int confine_calls(err_t **err)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (!f)
		return err_set(err, ERR_NO_MEMORY, NULL, "seccomp filter");
	(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);        /* no other cost for the processor's speculation */
	(void)seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);   /* a tree, not a list */
	rc = add_forbidden(f);
	if (rc == 0)
		rc = add_clone(f);
	if (rc == 0)
		rc = add_sockets(f);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	return rc == 0 ? 0 : err_sys(err, -rc, "seccomp filter");
}
