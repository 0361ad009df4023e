#include "agent/caps.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

const int caps_kept[CAPS_KEPT] = { CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP };

static bool is_kept(int cap)
{
	for (size_t i = 0; i < CAPS_KEPT; i++)
		if (caps_kept[i] == cap)
			return true;
	return false;
}

void caps_reduce(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];
	uint32_t mask = 0;

	/* The kernel may know more of them than we do: it says where they end. */
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!is_kept(cap))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (size_t i = 0; i < CAPS_KEPT; i++)
		mask |= 1u << caps_kept[i];
	if (syscall(SYS_capget, &h, d) < 0)
		return;
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t m = i == 0 ? mask : 0;

		d[i].effective &= m;
		d[i].permitted &= m;
		d[i].inheritable = 0;   /* commands would have it still, and nothing of ours executes with rights */
	}
	syscall(SYS_capset, &h, d);
}
