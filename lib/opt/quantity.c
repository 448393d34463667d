/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Numbers with units: "64KiB", "2.5us", "1Mpps", "0x40" to a whole number of the smallest unit. A
 * fraction is allowed if the result is whole: 2.5us is 2500 ns, 0.5ns is refused. The arithmetic is
 * in 128 bits, so only a result beyond 64 bits is "too large".
 *
 * Units are spelled exactly: "M" is MiB for bytes and a factor of no other kind, so a wrong kind
 * of unit is an error with the list of right ones. value.c calls this for every number; setters of
 * programs' own options do as well.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "opt/spw_opt.h"

#define FRACTION_DIGITS 12

__extension__ typedef unsigned __int128 wide;

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit byte_unit[] = {
	{"B", 1},          {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30},
	{"K", 1ull << 10}, {"M", 1ull << 20},   {"G", 1ull << 30}};
static const struct unit time_unit[] = {
	{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"min", 60000000000ull}};
static const struct unit rate_unit[] = {
	{"pps", 1}, {"kpps", 1000}, {"Mpps", 1000000}, {"Gpps", 1000000000}};
static const struct unit bit_unit[] = {
	{"bps", 1}, {"kbps", 1000}, {"Mbps", 1000000}, {"Gbps", 1000000000}};

static const struct {
	const struct unit *unit;
	uint32_t cnt;
	const char *names, *smallest, *likely;
} unit_set[] = {
	[SPW_OPT_UNIT_NONE] = {NULL, 0, "none", "", NULL},
	[SPW_OPT_UNIT_BYTES] = {byte_unit, SPW_ARRAY_CNT(byte_unit), "B, KiB, MiB, GiB (K, M, G)",
				"byte", "B"},
	[SPW_OPT_UNIT_NS] = {time_unit, SPW_ARRAY_CNT(time_unit), "ns, us, ms, s, min", "ns", "ms"},
	[SPW_OPT_UNIT_PPS] = {rate_unit, SPW_ARRAY_CNT(rate_unit), "pps, kpps, Mpps, Gpps", "pps",
			      "kpps"},
	[SPW_OPT_UNIT_BPS] = {bit_unit, SPW_ARRAY_CNT(bit_unit), "bps, kbps, Mbps, Gbps", "bps",
			      "Gbps"},
};

/* -1: not a digit of this base. */
static int quantity_digit(char c, unsigned int base)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (base == 16 && c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (base == 16 && c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Digits from *text on, which then points behind them. Returns false on overflow. */
static bool quantity_digits(const char **text, unsigned int base, uint64_t *value,
			    uint32_t *digits_out)
{
	int digit;

	*digits_out = 0;
	for (; (digit = quantity_digit(**text, base)) >= 0; (*text)++, (*digits_out)++)
		if (__builtin_mul_overflow(*value, base, value) ||
		    __builtin_add_overflow(*value, (uint64_t)digit, value))
			return false;
	return true;
}

/* A bare number is taken only where the option has a unit for it. */
static int quantity_unit(const char *text, const char *name, enum spw_opt_unit unit,
			 uint64_t bare_unit, uint64_t *factor_out)
{
	*factor_out = bare_unit;
	if (*name == '\0' && bare_unit)
		return 0;
	if (*name == '\0')
		return spw_err(EINVAL, "'%.64s' has no unit: %.64s%s? allowed: %s", text, text,
			       unit_set[unit].likely, unit_set[unit].names);
	for (uint32_t i = 0; i < unit_set[unit].cnt; i++) {
		if (strcmp(name, unit_set[unit].unit[i].name) == 0) {
			*factor_out = unit_set[unit].unit[i].factor;
			return 0;
		}
	}
	if (unit == SPW_OPT_UNIT_NONE)
		return spw_err(EINVAL, "'%.64s' is not a whole number", text);
	return spw_err(EINVAL, "'%.64s' has the unknown unit '%.16s'; allowed: %s", text, name,
		       unit_set[unit].names);
}

/* value = whole * factor + fraction * factor / 10^digits; the remainder of that division must be 0.
 */
int spw_opt_quantity(const char *text, enum spw_opt_unit unit, uint64_t bare_unit,
		     uint64_t *value_out)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *at = text + (hex ? 2 : 0);
	uint64_t whole = 0, fraction = 0, scale = 1, factor;
	uint32_t digits, fraction_digits = 0;
	wide value;
	int rc;

	if (!quantity_digits(&at, hex ? 16 : 10, &whole, &digits))
		return spw_err(ERANGE, "'%.64s' is too large", text);
	if (digits == 0)
		return spw_err(EINVAL, "'%.64s' is not a number", text);
	if (*at == '.' && !hex) {
		at++;
		if (!quantity_digits(&at, 10, &fraction, &fraction_digits) ||
		    fraction_digits == 0 || fraction_digits > FRACTION_DIGITS)
			return spw_err(EINVAL, "'%.64s': 1 .. %d digits go behind the point", text,
				       FRACTION_DIGITS);
	}
	rc = quantity_unit(text, at, unit, bare_unit, &factor);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < fraction_digits; i++)
		scale *= 10;
	if ((wide)fraction * factor % scale && unit == SPW_OPT_UNIT_NONE)
		return spw_err(EINVAL, "'%.64s' is not a whole number", text);
	if ((wide)fraction * factor % scale)
		return spw_err(EINVAL, "'%.64s' is finer than one %s", text,
			       unit_set[unit].smallest);
	value = (wide)whole * factor + (wide)fraction * factor / scale;
	if (value > UINT64_MAX)
		return spw_err(ERANGE, "'%.64s' is too large", text);
	*value_out = (uint64_t)value;
	return 0;
}
