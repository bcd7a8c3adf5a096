// The views, in the order of the navigation.

import { showClients } from "./clients.js";
import { showFaults } from "./faults.js";
import { showGroups } from "./groups.js";
import { showLateness } from "./lateness.js";
import { showLevels } from "./levels.js";
import { showMessages } from "./messages.js";
import { showSend } from "./send.js";
import { showTopics } from "./topics.js";

export const ROOMS = [
  { name: "levels", title: "Levels", show: showLevels },
  { name: "messages", title: "Messages", show: showMessages },
  { name: "send", title: "Send", show: showSend },
  { name: "topics", title: "Topics", show: showTopics },
  { name: "groups", title: "Groups", show: showGroups },
  { name: "clients", title: "Clients", show: showClients },
  { name: "faults", title: "Faults", show: showFaults },
  { name: "lateness", title: "Lateness", show: showLateness },
];
