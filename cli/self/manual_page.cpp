// The macros are those of man(7), which man-db, mandoc and groff understand alike.
#include "cli/self/manual_page.h"

#include <algorithm>
#include <sstream>

#include "cli/process/failure.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// Escapes text so that roff shows it unchanged, without typographic dashes, quotes and accents.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  }
  // A dot at the beginning of a line would be a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string page_name(const std::string& command) {  // "rapt attend" -> "rapt-attend"
  std::string name = command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

void add_option(std::string& page, const OptionUsage& option) {
  std::string title;
  for (const std::string& name : option.names) title += (title.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty() && option.names.front() != option.value)
    title += " " + italic(option.value);
  page += ".TP\n" + title + "\n" + roff(option.help) + "\n";
}

void add_synopsis(std::string& page, const CommandUsage& command) {
  page += ".SH SYNOPSIS\n" + bold(command.name);
  if (!command.commands.empty()) page += " " + italic("COMMAND");
  if (!command.options.empty()) page += " [" + italic("OPTIONS") + "]";
  for (const OptionUsage& argument : command.arguments)
    page += " [" + italic(argument.value) + (argument.repeatable ? "...]" : "]");
  page += "\n";
}

// Adds the notes of the help: sentences are filled, indented lines stay as they are, and lines that
// call the program are examples.
void add_notes(std::string& page, const std::string& notes) {
  std::string text, examples;
  bool filled = true, paragraph = false;
  std::istringstream lines(notes);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  rapt ")) {
      examples += roff(line.substr(2)) + "\n";
      continue;
    }
    if (line.empty()) {
      paragraph = true;
      continue;
    }
    const bool fill = !line.starts_with(' ');
    if (fill && !filled) text += ".fi\n";
    if (paragraph && !text.empty()) text += ".PP\n";
    if (!fill && filled) text += ".nf\n";
    filled = fill;
    paragraph = false;
    text += roff(line) + "\n";
  }
  if (!filled) text += ".fi\n";
  if (!text.empty()) page += ".SH NOTES\n" + text;
  if (!examples.empty()) page += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
}

void add_exit_codes(std::string& page) {
  page += ".SH EXIT STATUS\n";
  for (const ExitMeaning& exit : kExitMeanings) {
    page += ".TP\n" + bold(std::to_string(static_cast<int>(exit.code))) + "\n" + roff(exit.means) +
            "\n";
  }
}

void add_see_also(std::string& page, const CommandUsage& command, const CommandUsage& program) {
  std::string others;
  const auto add = [&](const std::string& name) {
    if (name != command.name)
      others += (others.empty() ? "" : ",\n") + bold(page_name(name)) + "(1)";
  };
  add(program.name);
  for (const CommandUsage& other : program.commands) add(other.name);
  if (!others.empty()) page += ".SH SEE ALSO\n" + others + "\n";
}

}  // namespace

std::string manual_page(const CommandUsage& command, const CommandUsage& program) {
  const std::string name = page_name(command.name);
  // No date: the same source gives the same page.
  std::string page =
      ".TH " + upper(roff(name)) + " 1 \"\" \"rapt " + roff(version()) + "\" \"rapt\"\n";
  page += ".SH NAME\n" + roff(name) + " \\- " + roff(command.help) + "\n";
  add_synopsis(page, command);
  if (!command.commands.empty()) {
    page += ".SH COMMANDS\n";
    for (const CommandUsage& inner : command.commands)
      page += ".TP\n" + bold(inner.word()) + "\n" + roff(inner.help) + "\n";
  }
  if (!command.arguments.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const OptionUsage& argument : command.arguments) add_option(page, argument);
  }
  page += ".SH OPTIONS\n";
  const std::vector<std::string> groups = groups_of(command.options);
  for (const std::string& group : groups) {
    // "Options" is CLI11's name for the group of options that were given no group.
    if (groups.size() > 1) page += ".SS " + roff(group == "Options" ? "General" : group) + "\n";
    for (const OptionUsage& option : command.options)
      if (option.group == group) add_option(page, option);
  }
  add_notes(page, command.notes);
  add_exit_codes(page);
  add_see_also(page, command, program);
  return page;
}

}  // namespace rapt::cli
