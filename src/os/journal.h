/* Priorities of lines for journald. systemd sets JOURNAL_STREAM to the device and inode of the
 * stream to the journal (systemd.exec(5)). If a descriptor is this stream, a line may begin with
 * "<N>", N a priority of syslog (sd-daemon(3)); journald removes the prefix. On every other stream,
 * for example a pipe of a child that inherited the variable, lines have no prefix. */
#ifndef BW_OS_JOURNAL_H
#define BW_OS_JOURNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum bw_priority { BW_PRIORITY_ERROR = 3, BW_PRIORITY_WARNING = 4, BW_PRIORITY_INFO = 6 };

/* Returns whether `fd` is the stream that JOURNAL_STREAM names. */
static inline bool bw_journal_reads(int fd)
{
    struct stat st;
    unsigned long long device, inode;
    char rest;
    const char *text = getenv("JOURNAL_STREAM");
    return text && sscanf(text, "%llu:%llu%c", &device, &inode, &rest) == 2 &&
           fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

/* Returns the prefix of a line. It is empty if the line does not go to the journal. */
static inline const char *bw_journal_prefix(bool journal, enum bw_priority priority)
{
    if (!journal)
        return "";
    return priority == BW_PRIORITY_ERROR ? "<3>" : priority == BW_PRIORITY_WARNING ? "<4>" : "<6>";
}

/* Prints one line on standard error, in one write. The format has no line end. */
__attribute__((format(printf, 2, 0))) static inline void
bw_print_line_list(enum bw_priority priority, const char *format, va_list arguments)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s%s\n", bw_journal_prefix(bw_journal_reads(STDERR_FILENO), priority), text);
}

__attribute__((format(printf, 2, 3))) static inline void bw_print_line(enum bw_priority priority,
                                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bw_print_line_list(priority, format, arguments);
    va_end(arguments);
}

#endif
