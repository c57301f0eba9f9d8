#pragma once
// Folders that appear whole: flushed to the disk before they get their name. POSIX.
#include <string>

namespace rapt::training {

// All paths are of one file system. Functions throw Error(io) unless they say otherwise.

// Flushes the names in a folder to the disk: fsync() of its files alone does not keep them.
void sync_folder(const std::string& folder);

// Makes a folder if it does not exist; its parent must.
void make_folder(const std::string& folder);

// Gives a folder its name, which nothing may have.
void rename_folder(const std::string& from, const std::string& to);

// Makes folder/link a symbolic link to `target` in one step, by way of folder/.link.
void replace_link(const std::string& folder, const std::string& link, const std::string& target);

// The target of a symbolic link, "" if there is none. Throws nothing.
std::string link_target(const std::string& link);

// Removes a folder with what it holds, if it exists. Throws nothing: what cannot be removed stays.
void remove_folder(const std::string& folder) noexcept;

}  // namespace rapt::training
