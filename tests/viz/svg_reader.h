#pragma once
// The part of XML that tests need: a strict check that a document is well-formed, and its elements.
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::viz::test {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // as written, between the tags of an element without children
  double number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }
};

// Throws std::runtime_error if the document is not well-formed.
class SvgReader {
 public:
  explicit SvgReader(std::string_view document) : rest_(document) {
    expect("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    std::vector<size_t> open;
    do {
      const std::string text = take_until('<');
      check_text(text);
      if (!open.empty()) elements_[open.back()].text += text;
      if (open.empty() && !text.empty()) fail("text outside of the root");
      if (skip("/")) {
        if (open.empty()) fail("an end without a beginning");
        expect(elements_[open.back()].name + ">");
        open.pop_back();
      } else if (!read_tag()) {
        open.push_back(elements_.size() - 1);
      }
    } while (!open.empty());
    expect("\n");
    if (!rest_.empty()) fail("something behind the root");
  }

  const std::vector<Element>& elements() const { return elements_; }

  std::vector<Element> all(std::string_view name) const {
    std::vector<Element> found;
    for (const Element& e : elements_)
      if (e.name == name) found.push_back(e);
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(why + " before: " + std::string(rest_.substr(0, 60)));
  }
  bool skip(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  void expect(std::string_view what) {
    if (!skip(what)) fail("expected " + std::string(what));
  }
  std::string take_until(char end) {
    const size_t length = rest_.find(end);
    if (length == std::string_view::npos) fail(std::string("no ") + end);
    const std::string taken(rest_.substr(0, length));
    rest_.remove_prefix(length + 1);
    return taken;
  }
  void check_text(const std::string& text) const {
    for (size_t i = 0; i < text.size(); ++i) {
      if (static_cast<unsigned char>(text[i]) < 0x20 && text[i] != '\n')
        fail("a control character");
      if (text[i] == '>') fail("a bare >");
      if (text[i] != '&') continue;
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"})
        known = known || text.compare(i, std::string_view(entity).size(), entity) == 0;
      if (!known) fail("a bare &");
    }
  }
  bool read_tag() {  // returns true if the element is empty
    const size_t length = rest_.find_first_of(" />");
    Element element{std::string(rest_.substr(0, length)), {}, {}};
    rest_.remove_prefix(length);
    while (skip(" ")) {
      const std::string name = take_until('=');
      expect("\"");
      const std::string value = take_until('"');
      check_text(value);
      if (value.find('<') != std::string::npos) fail("a bare < in an attribute");
      if (!element.attributes.emplace(name, value).second) fail("an attribute given twice");
    }
    elements_.push_back(element);
    if (skip("/>")) return true;
    expect(">");
    return false;
  }

  std::string_view rest_;
  std::vector<Element> elements_;
};

}  // namespace rapt::viz::test
