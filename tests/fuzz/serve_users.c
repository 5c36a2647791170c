/* libFuzzer: any users file is refused with a reason, or every user in it is found by name. */
#include "core/base/error.h"
#include "fuzz/fuzz_dir.h"
#include "serve/auth/users.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct bw_users users = {0};
    char path[128], why[BW_USERS_WHY + 1] = "";
    fuzz_dir_make();
    fuzz_dir_write("users", bytes, length);
    snprintf(path, sizeof path, "%s/users", fuzz_dir);
    int error = bw_users_read(&users, path, why);
    BW_ASSERT(error ? why[0] != '\0' : users.count <= BW_USERS_MAX);
    for (uint32_t i = 0; !error && i < users.count; i++)
        BW_ASSERT(bw_users_find(&users, users.at[i].name) == &users.at[i]);
    bw_users_free(&users);
    return 0;
}
