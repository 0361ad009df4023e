/* clock.h - time. Wall time for records, CLOCK_BOOTTIME for timers. Milliseconds unless the name says otherwise. */
#ifndef PADDOCK_BASE_CLOCK_H
#define PADDOCK_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void);
/* RFC 3339 in UTC with milliseconds and Z ("2026-01-31T12:00:00.123Z"); dst of at least CLOCK_RFC3339_SIZE. */
#define CLOCK_RFC3339_SIZE 32
void clock_rfc3339(int64_t wall_ms, char dst[CLOCK_RFC3339_SIZE]);
/* The other way: RFC 3339 of the years 1970 to 9999, what is below a millisecond cut off, or a date alone (its beginning in UTC). 0 or -1. */
int clock_parse(const char *s, int64_t *ret);

#endif
