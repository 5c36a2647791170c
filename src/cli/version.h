/* Prints the version of the program, for users and bug reports. */
#ifndef BW_CLI_VERSION_H
#define BW_CLI_VERSION_H

#ifndef BW_VERSION
#define BW_VERSION "unknown"
#endif

void bw_version_print(void);

#endif
