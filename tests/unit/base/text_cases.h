/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * {text, what a terminal may have of it}, for text_test.c and, as it is read by a regular
 * expression, for tests/unit/tools/text_test.py. Bytes are octal: they end after 3 digits.
 */
{"plain text, ~ and \\u001b", "plain text, ~ and \\u001b"},
	{"\302\265s \302\261 \342\202\254 \360\237\230\200 \346\274\242",
	 "\302\265s \302\261 \342\202\254 \360\237\230\200 \346\274\242"},
	{"\033]0;owned\007", "\\u001b]0;owned\\u0007"},
	{"a\tb\012c\015d\177", "a\\u0009b\\u000ac\\u000dd\\u007f"},
	{"\302\2332J \302\200\302\237\302\240", "\\u009b2J \\u0080\\u009f\302\240"},
	{"\342\200\256evil\342\200\254 \342\201\246\342\201\251 \342\200\216\342\200\217\330\234",
	 "\\u202eevil\\u202c \\u2066\\u2069 \\u200e\\u200f\\u061c"},
	{"\342\200\250\342\200\251", "\\u2028\\u2029"},
	{"\200\377\300\257\355\240\200\364\220\200\200",
	 "\\x80\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
	{"cut \342\202", "cut \\xe2\\x82"},
	{"\342\033[m\360\237\302\265", "\\xe2\\u001b[m\\xf0\\x9f\302\265"},
