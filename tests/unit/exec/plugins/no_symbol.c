/* SPDX-License-Identifier: BSD-3-Clause
 * A shared object that is no plug-in. */
int something_else(void);

int something_else(void)
{
	return 1;
}
